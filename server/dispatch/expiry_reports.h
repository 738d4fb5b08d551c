// Notifies clients of expirations when they are due, on a thread that runs no loop. Also the sweep that finds the keys that
// expire next (expiry_watch.h).
#pragma once

#include <cstdint>
#include <functional>

#include <engine/db.h>

#include "dispatch/expiry_watch.h"
#include "dispatch/notifications.h"
#include "dispatch/observers.h"
#include "dispatch/offload.h"

namespace ebbtide {

/// Publishes expirations that are due, for a few milliseconds per call. Used by one thread.
class ExpiryReports {
 public:
  struct Env {
    Observers* observers = nullptr;
    std::function<Millis()> now;  ///< engine time
    std::function<std::uint64_t()> mono_nanos;
  };

  explicit ExpiryReports(Env env) : env_(std::move(env)) {}

  /// Works for one slice of time. Returns true if work is left, an expiration or a part of an event, so that the caller calls
  /// again soon.
  bool report_some();

 private:
  const Env env_;
  Notifications::Outbox outbox_;  // events of the latest expiration that are not sent yet
};

/// A sweep that finds the keys which expire up to the watch's next horizon. Runs on a thread for long work.
class ExpirySweep final : public OffloadWork {
 public:
  ExpirySweep(Db& db, ExpiryWatch& watch, DatabaseId databases, ExpiryWatch::Sweep sweep)
      : db_(db), watch_(watch), databases_(databases), sweep_(sweep) {}
  void run() override;

 private:
  Db& db_;
  ExpiryWatch& watch_;
  const DatabaseId databases_;
  const ExpiryWatch::Sweep sweep_;
};

}  // namespace ebbtide
