// A whole file mapped read-only. Processes that map the same file share its pages.
//
// Ownership: the mapping lives as long as the object; keep the shared_ptr next to every view. Thread-safe: immutable.
#pragma once
#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/program.h"  // Bytes

namespace lathe {

class MappedFile {
 public:
  // Errors name the file: it cannot be opened, is a folder or a device, or is empty.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // On a page boundary.
  Bytes bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, Bytes bytes) : path_(std::move(path)), bytes_(bytes) {}
  std::string path_;
  Bytes bytes_;
};

}  // namespace lathe
