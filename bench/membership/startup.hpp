#pragma once

namespace tutti::membership {

/// Prints what ranks send and receive until they are connected: with the store, and with their neighbours.
bool measure_startup(int ranks);

}  // namespace tutti::membership
