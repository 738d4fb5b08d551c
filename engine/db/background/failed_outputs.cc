#include "db/background/failed_outputs.h"

#include <string>

#include "io/file_names.h"

namespace ebbtide {

std::vector<ObsoleteFiles> FailedOutputs::leave(const TreePtr& tree, const std::vector<FileMeta>& tables,
                                                const std::vector<FileMeta>& redescribed) {
  std::vector<ObsoleteFiles> files;
  const PurgeLedger::Floors floors{{tree->id, env_.floor(tree)}};
  for (const FileMeta& table : tables) {
    files.push_back({table.data_file, table.metadata_file});
    env_.ledger->leave({data_file_name(table.data_file), table.data_bytes, floors});
    env_.ledger->leave({metadata_file_name(table.metadata_file), table.metadata_bytes, floors});
  }
  for (const FileMeta& table : redescribed) {
    files.push_back({kNoFile, table.metadata_file});
    env_.ledger->leave({metadata_file_name(table.metadata_file), table.metadata_bytes, floors});
  }
  return files;
}

void FailedOutputs::unlink(const TreePtr& tree, const std::vector<FileMeta>& tables, const std::vector<FileMeta>& redescribed) {
  for (const ObsoleteFiles& files : leave(tree, tables, redescribed)) env_.obsolete_files->remove(files);
}

void FailedOutputs::disown(const TreePtr& tree, const std::vector<FileMeta>& tables, const std::vector<FileMeta>& redescribed) {
  env_.obsolete_files->disown(leave(tree, tables, redescribed));
}

void FailedOutputs::note_failure(const TreePtr& tree) {
  const PurgeLedger::Floors floors{{tree->id, env_.floor(tree)}};
  env_.ledger->leave({"(outputs)", 0, floors, {}});
  for (const std::string& name : env_.fs->unremoved()) env_.ledger->leave({name, 0, floors, {}});
}

}  // namespace ebbtide
