// Converts between the public OperationFigures and this layer's PerOperation.
#pragma once

#include <engine/tuner.h>
#include "model/workload.h"

namespace ebbtide {

inline PerOperation per_operation(const OperationFigures& figures) {
  return {figures.empty_read, figures.read, figures.range, figures.write};
}
inline PerOperation per_operation(const OperationCounts& counts) {
  return {static_cast<double>(counts.empty_reads), static_cast<double>(counts.reads), static_cast<double>(counts.ranges),
          static_cast<double>(counts.writes)};
}
inline OperationFigures figures_of(const PerOperation& values) {
  return {values[kEmptyRead], values[kRead], values[kRange], values[kWrite]};
}

}  // namespace ebbtide
