// Names the present boot of the machine: within one boot, readings of the boot clock can be compared across processes.
#pragma once

#include <cstdint>

namespace ebbtide {

/// Returns a random number that is the same for all processes of one boot and one time namespace, and differs between boots. 0:
/// the system has no such number. Reads two small files of /proc.
std::uint64_t system_boot_id();

}  // namespace ebbtide
