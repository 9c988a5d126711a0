#pragma once

namespace tutti::membership {

/// Floods the death of a process over the overlay, as control/world/world.cc does, and draws the overlay anew; prints
/// what each process sends and receives. Returns whether all have heard of it.
bool measure_notices(int processes);

}  // namespace tutti::membership
