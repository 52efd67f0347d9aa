#include "tools/keep_list.h"


#include "base/file.h"
#include "base/hash.h"
#include "base/toml.h"

namespace lathe::tools {

void KeepList::store(std::map<std::string, std::string>* metadata) const {
  if (!hash.empty()) (*metadata)[kKeepHashKey] = hash;
}

void KeepFlags::add_to(Arguments& args) {
  args.option("--keep", given,
              "operators that stay float: a node's name, a pattern with * and ?, an op type, or a .toml file with keep = [...]")
      .type_name("NAME");
}

Result<KeepList> KeepFlags::read() const {
  KeepList list;
  std::string bytes;
  for (const std::string& entry : given) {
    if (!entry.ends_with(".toml")) {
      list.entries.push_back(entry);
      continue;
    }
    LATHE_TRY(const std::string text, read_text_file(entry));
    LATHE_TRY(const Tree tree, parse_toml(text, entry));
    LATHE_TRY(TableReader reader, TableReader::open(tree, entry));
    if (reader.get("keep") == nullptr) return reader.missing("keep");
    LATHE_TRY(const std::vector<std::string> names, reader.strings("keep"));
    LATHE_CHECK_OK(reader.finish());
    list.entries.insert(list.entries.end(), names.begin(), names.end());
    bytes += text;
  }
  if (!bytes.empty()) list.hash = to_hex(hash128(bytes));
  return list;
}

std::string keep_file_text(const std::vector<std::string>& names, const std::string& comment) {
  std::string text = "# " + comment + "\nkeep = [\n";
  for (const std::string& name : names) {
    text += "  \"";
    for (char c : name) {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    text += "\",\n";
  }
  return text + "]\n";
}

}  // namespace lathe::tools
