#include "base/wait_point.h"

namespace ebbtide {

void WaitPoint::wake() {
  round_.fetch_add(1, std::memory_order_seq_cst);
  round_.notify_all();
}

}  // namespace ebbtide
