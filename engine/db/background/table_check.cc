#include "db/background/table_check.h"

#include "compaction/table_files.h"
#include "io/file_names.h"

namespace ebbtide {

std::vector<Status> errors_of_table(const TableInspector& reader, const FileMeta& meta, const std::function<bool()>& stopped,
                                    TableCheck* check) {
  std::vector<Status> errors;
  reader.verify(&errors, &check->pages, &check->entries, stopped);
  if (!(reader.stats() == meta.stats)) {
    errors.push_back(
        Status::corruption("table " + std::to_string(meta.data_file) + ": its properties differ from the manifest's"));
  }
  return errors;
}

std::vector<Status> errors_on_drive(FileSystem& fs, const std::string& dir, const FileMeta& meta,
                                    const std::function<bool()>& stopped, TableCheck* check) {
  const auto reader = TableReader::open({&fs, nullptr, dir, true}, files_of(meta));
  if (!reader.is_ok()) return {as_damage(reader.status())};
  return errors_of_table(**reader, meta, stopped, check);
}

Status find_files(FileSystem& fs, const std::string& dir, const FileMeta& meta) {
  for (const std::string& name : {data_file_name(meta.data_file), metadata_file_name(meta.metadata_file)}) {
    const std::string path = join_path(dir, name);
    const Status status = fs.file_size(path).status();
    if (!status.is_ok()) return status.is_not_found() ? Status::corruption(path + ": is missing") : status;
  }
  return Status::ok();
}

Status as_damage(const Status& status) {
  return status.is_not_found() ? Status::corruption("a file is missing: " + std::string(status.message())) : status;
}

}  // namespace ebbtide
