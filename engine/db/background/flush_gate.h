// FlushGate lets flushes of different trees run side by side. Recovery after an error runs alone, since it flushes every tree.
#pragma once

#include <shared_mutex>

#include "base/mutex.h"

namespace ebbtide {

/// Taken before the manifest's mutex and held across I/O. Thread-safe. Flushes share the gate; recovery takes it alone. Recovery
/// cannot starve, since no flush starts after an error.
class CAPABILITY("flush gate") FlushGate {
 public:
  void lock() EBBTIDE_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() EBBTIDE_TSA(release_capability()) { mutex_.unlock(); }
  void lock_shared() EBBTIDE_TSA(acquire_shared_capability()) { mutex_.lock_shared(); }
  void unlock_shared() EBBTIDE_TSA(release_shared_capability()) { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

/// Holds the gate alone, for recovery.
class SCOPED_CAPABILITY FlushGateAlone {
 public:
  explicit FlushGateAlone(FlushGate& gate) EBBTIDE_TSA(acquire_capability(gate)) : gate_(gate) { gate_.lock(); }
  ~FlushGateAlone() EBBTIDE_TSA(release_capability()) { gate_.unlock(); }
  FlushGateAlone(const FlushGateAlone&) = delete;
  FlushGateAlone& operator=(const FlushGateAlone&) = delete;

 private:
  FlushGate& gate_;
};

/// Shares the gate, for a flush.
class SCOPED_CAPABILITY FlushGateShared {
 public:
  explicit FlushGateShared(FlushGate& gate) EBBTIDE_TSA(acquire_shared_capability(gate)) : gate_(gate) { gate_.lock_shared(); }
  ~FlushGateShared() EBBTIDE_TSA(release_generic_capability()) { gate_.unlock_shared(); }
  FlushGateShared(const FlushGateShared&) = delete;
  FlushGateShared& operator=(const FlushGateShared&) = delete;

 private:
  FlushGate& gate_;
};

}  // namespace ebbtide
