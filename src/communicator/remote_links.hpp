// Links to ranks of other hosts: TCP, between the processes they live in.
#pragma once

#include <memory>

#include "communicator/plans.hpp"

namespace tutti {

class Job;
struct Identity;

std::unique_ptr<Remote> open_remote(const Job& job, const Identity& identity);

}  // namespace tutti
