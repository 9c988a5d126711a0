// What a communicator uses, for the log.
#pragma once

namespace tutti {

class CommunicatorImpl;

/// Logs, at info, which process this rank is, where it listens, how it reaches each peer, and what programs are chosen
/// by; at debug, a line for each peer. Call it when the ranks have agreed.
void log_description(const CommunicatorImpl& communicator);

}  // namespace tutti
