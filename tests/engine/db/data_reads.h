// Recognizes reads of tables during page drops.
#pragma once

#include "io/interposed_fs.h"
#include "table/metadata.h"

namespace ebbtide {

/// Returns true if the call reads a table's data file beyond its header, which has no stored data and is read whenever a table is
/// opened. For tables with tiles of several pages.
inline bool reads_behind_header(const FileCall& call) {
  return call.op == FileOp::kRead && call.path.ends_with(".data") && call.offset + call.length > data_header_bytes(kPunchUnit);
}

}  // namespace ebbtide
