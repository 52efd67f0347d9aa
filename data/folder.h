// Sets whose samples are files: folders of classes, folders whose file names say the class, or lists of files. Internal to data/.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "data/description.h"
#include "data/samples.h"

namespace lathe {

struct FolderFile {
  std::string path;
  std::string label;                // empty without labels
  std::vector<std::string> groups;  // one per column of the listing
};

struct ClassPlace {
  std::string name;
  std::string where;  // "folder 'x'" or "file 'x'" that has it, for messages
};

struct FolderListing {
  std::vector<FolderFile> files;    // sorted by name; in a list, in its order
  std::vector<std::string> columns;
  std::vector<ClassPlace> classes;  // each once; folders without a file count
};

// The files of one path of a split, of the kind that the format reads:
//   path/class/file, or path/file (with labels and groups if the description has `file_name`), or a .csv or .tsv file with a column of
//   paths relative to it, perhaps one of labels; its other columns are groups.
// Errors: nothing there that can be read, files beside class folders, a name that is not as `file_name` says.
Result<FolderListing> list_folder(const DatasetDescription& d, const std::string& path);

// All samples of a split of a format whose samples are files.
Result<LoadedSamples> load_folders(const DatasetDescription& d, const SplitDescription& split,
                                   const std::vector<std::string>& classes);

// Fields of a pattern "{label}_{speaker}_{}": each takes the shortest text that lets the rest fit; {} is not kept.
struct NamePattern {
  std::vector<std::string> fields;    // "label", "speaker", ""
  std::vector<std::string> literals;  // before, between and after: one more than fields
};
// Errors: a brace that is not closed, two fields without a text between them, a field that is there twice.
Result<NamePattern> parse_name_pattern(const std::string& text);
// False: the name is not of this form. Requires: *values as long as fields.
bool match_name(const NamePattern& pattern, std::string_view name, std::vector<std::string>* values);

}  // namespace lathe
