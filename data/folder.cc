#include "data/folder.h"

#include <algorithm>
#include <filesystem>

#include "base/cancel.h"
#include "base/file.h"
#include "data/csv.h"
#include "data/image.h"
#include "data/image_samples.h"
#include "data/sound.h"
#include "data/sound_samples.h"

namespace lathe {
namespace {

namespace stdfs = std::filesystem;

constexpr const char* kLabelField = "label";

bool is_sound(const DatasetDescription& d) { return d.format == DataFormat::kWavFolder; }

struct Names {
  std::vector<std::string> files, folders;  // sorted
};

Result<Names> names_in(const std::string& path, bool (*wanted)(const std::string& name)) {
  Names out;
  std::error_code ec;
  for (stdfs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code unreadable;
    if (it->is_directory(unreadable)) {
      out.folders.push_back(name);
    } else if (wanted(name)) {
      out.files.push_back(name);
    }
  }
  if (ec) return fail(Code::kIo, "cannot read folder '" + path + "': " + errno_text(ec.value()));
  std::sort(out.files.begin(), out.files.end());
  std::sort(out.folders.begin(), out.folders.end());
  return out;
}

void add_class(const std::string& name, const std::string& where, FolderListing* out) {
  const auto same = [&](const ClassPlace& c) { return c.name == name; };
  if (std::none_of(out->classes.begin(), out->classes.end(), same)) out->classes.push_back({name, where});
}

Result<void> add_named(const NamePattern& pattern, const std::string& text, const std::string& path, std::string label,
                       FolderListing* out) {
  std::vector<std::string> values(pattern.fields.size());
  if (!match_name(pattern, stdfs::path(path).stem().string(), &values))
    return fail(Code::kInvalidArgument, "file '" + path + "': its name is not of the form '" + text + "'");
  FolderFile file{path, std::move(label), {}};
  for (size_t i = 0; i < values.size(); ++i) {
    if (pattern.fields[i] == kLabelField) {
      file.label = values[i];
      add_class(file.label, "file '" + path + "'", out);
    } else if (!pattern.fields[i].empty()) {
      file.groups.push_back(std::move(values[i]));
    }
  }
  out->files.push_back(std::move(file));
  return {};
}

Result<FolderListing> list_tree(const DatasetDescription& d, const std::string& root) {
  bool (*wanted)(const std::string&) = is_sound(d) ? has_sound_extension : has_image_extension;
  FolderListing out;
  LATHE_TRY(const NamePattern pattern, parse_name_pattern(d.file_name));
  bool labels_in_names = false;
  for (const std::string& field : pattern.fields) {
    labels_in_names = labels_in_names || field == kLabelField;
    if (!field.empty() && field != kLabelField) out.columns.push_back(field);
  }
  const auto add = [&](const std::string& path, std::string label) -> Result<void> {
    if (!d.file_name.empty()) return add_named(pattern, d.file_name, path, std::move(label), &out);
    out.files.push_back({path, std::move(label), {}});
    return {};
  };
  LATHE_TRY(const Names top, names_in(root, wanted));
  if (!top.folders.empty() && !top.files.empty())
    return fail(Code::kInvalidArgument, "folder '" + root + "' has " + (is_sound(d) ? "sound '" : "picture '") + top.files[0] +
                                            "' beside class folder '" + top.folders[0] + "'");
  if (!top.folders.empty() && labels_in_names)
    return fail(Code::kInvalidArgument,
                "folder '" + root + "' has class folders ('" + top.folders[0] + "') and file_name a {label}: one of them");
  for (const std::string& name : top.files) LATHE_CHECK_OK(add(root + "/" + name, ""));
  for (const std::string& folder : top.folders) {
    LATHE_CHECK_OK(check_cancelled());
    const std::string path = root + "/" + folder;
    add_class(folder, "folder '" + path + "'", &out);
    LATHE_TRY(const Names inside, names_in(path, wanted));
    for (const std::string& name : inside.files) LATHE_CHECK_OK(add(path + "/" + name, folder));
  }
  return out;
}

Result<FolderListing> list_table(const DatasetDescription& d, const std::string& path) {
  LATHE_TRY(const CsvTable table, read_csv(path));
  const auto file = table.find(d.file_column);
  if (!file) return fail(Code::kCorrupt, path + ": no column '" + d.file_column + "'");
  const auto label = table.find(d.label_column);
  const stdfs::path folder = stdfs::path(path).parent_path();
  FolderListing out;
  for (size_t c = 0; c < table.columns.size(); ++c)
    if (c != *file && c != label) out.columns.push_back(table.columns[c]);
  for (const auto& row : table.rows) {
    FolderFile f{(folder / row[*file]).lexically_normal().string(), label ? row[*label] : "", {}};
    if (label) add_class(f.label, "file '" + f.path + "'", &out);
    for (size_t c = 0; c < row.size(); ++c)
      if (c != *file && c != label) f.groups.push_back(row[c]);
    out.files.push_back(std::move(f));
  }
  return out;
}

}  // namespace

Result<NamePattern> parse_name_pattern(const std::string& text) {
  NamePattern out;
  out.literals.emplace_back();
  const auto bad = [&](const std::string& what) { return fail(Code::kInvalidArgument, "file_name '" + text + "' " + what); };
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '{') {
      out.literals.back() += text[at];
      continue;
    }
    const size_t close = text.find('}', at);
    if (close == std::string::npos) return bad("has '{' without '}'");
    std::string field = text.substr(at + 1, close - at - 1);
    if (!out.fields.empty() && out.literals.back().empty()) return bad("has two fields without a text between them");
    if (!field.empty() && std::find(out.fields.begin(), out.fields.end(), field) != out.fields.end())
      return bad("has field '" + field + "' twice");
    out.fields.push_back(std::move(field));
    out.literals.emplace_back();
    at = close;
  }
  return out;
}

bool match_name(const NamePattern& pattern, std::string_view name, std::vector<std::string>* values) {
  if (!name.starts_with(pattern.literals[0])) return false;
  name.remove_prefix(pattern.literals[0].size());
  for (size_t i = 0; i < pattern.fields.size(); ++i) {
    const std::string& after = pattern.literals[i + 1];
    size_t end = name.size();
    if (i + 1 < pattern.fields.size()) {
      end = name.find(after);
    } else if (name.ends_with(after)) {
      end = name.size() - after.size();
    } else {
      return false;
    }
    if (end == std::string_view::npos) return false;
    (*values)[i] = std::string(name.substr(0, end));
    name.remove_prefix(end + after.size());
  }
  return name.empty();
}

Result<FolderListing> list_folder(const DatasetDescription& d, const std::string& path) {
  return path.ends_with(".csv") || path.ends_with(".tsv") ? list_table(d, path) : list_tree(d, path);
}

Result<LoadedSamples> load_folders(const DatasetDescription& d, const SplitDescription& split,
                                   const std::vector<std::string>& classes) {
  LoadedSamples out;
  std::vector<std::string> files;
  for (const std::string& path : split.paths[0]) {
    LATHE_TRY(FolderListing listing, list_folder(d, path));
    for (const ClassPlace& c : listing.classes)
      if (std::find(classes.begin(), classes.end(), c.name) == classes.end())
        return fail(Code::kInvalidArgument, c.where + (c.where.starts_with("folder") ? " is" : " has '" + c.name + "', which is") +
                                                " no class of the set");
    if (files.empty())
      for (const std::string& name : listing.columns) out.groups.push_back({name, {}});
    const auto same_name = [](const GroupColumn& column, const std::string& name) { return column.name == name; };
    if (!std::equal(out.groups.begin(), out.groups.end(), listing.columns.begin(), listing.columns.end(), same_name))
      return fail(Code::kInvalidArgument, "'" + path + "' has other groups than those joined to it");
    for (FolderFile& file : listing.files) {
      files.push_back(std::move(file.path));
      const auto it = std::find(classes.begin(), classes.end(), file.label);
      if (!listing.classes.empty()) out.labels.push_back(static_cast<int32_t>(it - classes.begin()));
      for (size_t g = 0; g < file.groups.size(); ++g) out.groups[g].values.push_back(std::move(file.groups[g]));
    }
  }
  if (!out.labels.empty() && out.labels.size() != files.size())
    return fail(Code::kInvalidArgument, "'" + split.paths[0][0] + "' and those joined to it have files with and without classes");
  const Preprocessing& p = d.inputs[0].preprocessing;
  LATHE_TRY(auto samples, is_sound(d) ? make_sound_samples(std::move(files), p) : make_image_samples(std::move(files), p));
  out.inputs.push_back(std::move(samples));
  return out;
}

}  // namespace lathe
