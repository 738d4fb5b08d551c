// Identifies the present boot of the machine. Readings of the boot clock can be compared across processes only within one boot.
#pragma once

#include <cstdint>

namespace ebbtide {

/// Returns a random number that is the same for all processes of one boot and one time namespace, and differs between boots.
/// Returns 0 if the system has no such number. Reads two small files of /proc.
std::uint64_t system_boot_id();

}  // namespace ebbtide
