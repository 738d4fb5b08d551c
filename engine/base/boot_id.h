// Names the present boot of the machine: within one boot, readings of the boot clock can be compared across processes.
#pragma once

#include <cstdint>

namespace ebbtide {

/// The same for all processes of one boot (and of one time namespace); a random number, so another boot has another. 0: the
/// system does not say. Reads two small files of /proc.
std::uint64_t system_boot_id();

}  // namespace ebbtide
