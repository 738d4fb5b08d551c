// Files of a tree that has no tables, only metadata.
#pragma once

#include <memory>
#include <string>

#include "base/entry.h"
#include "version/version.h"

namespace ebbtide {

/// Returns the metadata of a file with two entries: its first key and its last.
inline FileMetaPtr make_file(FileNum num, const std::string& first, const std::string& last, std::uint64_t bytes = 100,
                             SeqNum seq = 1) {
  auto meta = std::make_shared<FileMeta>();
  meta->data_file = num;
  meta->metadata_file = num + 1000;
  meta->data_bytes = bytes;
  for (const std::string& key : {first, last}) {
    Entry entry;
    entry.key = key;
    entry.seq = seq;
    meta->stats.add_entry(entry);
  }
  return meta;
}

}  // namespace ebbtide
