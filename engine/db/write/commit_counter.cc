#include "db/write/commit_counter.h"

namespace ebbtide {

void CommitCounter::measure_memory() {
  const bool late = env_.clock->mono_ns() - ticked_ns_.load(std::memory_order_relaxed) > kLateTickNs;
  if (late) env_.relieve();
  env_.writes->try_measure(late);
}

}  // namespace ebbtide
