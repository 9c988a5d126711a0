// All of tutti's public API.
#pragma once

#include "tutti/communicator.hpp"
#include "tutti/error.hpp"
#include "tutti/memory.hpp"
#include "tutti/monitor.hpp"
#include "tutti/types.hpp"
#include "tutti/unique_id.hpp"
#include "tutti/version.hpp"
