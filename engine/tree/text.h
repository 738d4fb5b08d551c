// Writes and parses shapes and plans as text, for tests, logs, tools and the simulator.
//
// A shape has a line with the values of the whole tree that are not zero, then a line per run, newest first:
//
//   tree memtable=64M file=64M flushes=12 levels=3
//   cursor L1 k17
//   L0 r9: 21[a..z 64M]
//   L1 r3: 12[a..f 64M] 13[g..<m 64M 3t busy] 14[n..* 12345]
//   L2 r4:
//
//   file    = number "[" smallest ".." largest " " bytes attributes "]"
//   largest = key (inclusive) | "<" key (exclusive) | "*" (unbounded)
//   bytes   = a number; a multiple of 2^10, 2^20 or 2^30 is written with K, M or G
//   attributes, each only if it is not zero: 100e entries, 3t point tombstones, 2rt range tombstones, 7b entries that these
//     invalidate, 5d dead entries, born=ms oldest birth, deadline=ms, seq=lo..hi, D=lo..hi delete keys, expiry=lo..hi, busy,
//     quarantined
//   key     = letters, digits and _ - : / without quotes; other keys in double quotes with \" \\ and \xNN
//
// A plan is one line:
//
//   merge r9{21} r3{12 13} -> r3 L1 (run_count)        merge r9{21} -> new L1 (run_count, urgent)
//   slice r9{21} r3{12} a..f -> r3 L1 (deadline)       move r3{12} -> r4 L2 (size)
//   rewrite r3{12} (deadline)                          drop r9{21} r3{13} (dropped)         none
//   rewrite r3{12} into 256K (deadline)                the file is split into files of 256 KiB
//   drop pages r3{12: 0 4 5 | 7} (dropped)             drops pages 0, 4 and 5 of file 12 whole, and page 7 in part
//   drop pages r3{12 names: 0 |} r2{9 names: |} (dropped)   also renews names; in file 9 drops no page
#pragma once

#include <string>

#include <engine/result.h>
#include "tree/plan.h"
#include "tree/shape.h"

namespace ebbtide {

std::string to_text(const TreeShape& shape);
std::string to_text(const Plan& plan);
/// Returns one file as text, as in the text of a shape.
std::string to_text(const FileShape& file);
/// Returns a key in this notation.
std::string key_to_text(Bytes key);
/// The inverse of key_to_text(). Returns kInvalidArgument if `text` is malformed.
Result<std::string> parse_key(Bytes text);
/// Returns a number of bytes in this notation, such as "64M".
std::string bytes_to_text(std::uint64_t bytes);

/// Parse a shape and a plan. Return kInvalidArgument if `text` is malformed; the message says where, and what is allowed there.
/// parse_shape() does not check() the shape.
Result<TreeShape> parse_shape(Bytes text);
Result<Plan> parse_plan(Bytes text);

}  // namespace ebbtide
