// What is read of tables while pages of theirs are dropped.
#pragma once

#include "io/interposed_fs.h"
#include "table/metadata.h"

namespace ebbtide {

/// Whether the call reads more of a table's data file than the header, which is read whenever a table is opened, and has nothing
/// of what is stored. For tables with tiles of several pages.
inline bool reads_behind_header(const FileCall& call) {
  return call.op == FileOp::kRead && call.path.ends_with(".data") && call.offset + call.length > data_header_bytes(kPunchUnit);
}

}  // namespace ebbtide
