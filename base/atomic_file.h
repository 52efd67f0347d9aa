// Output files that appear whole or not at all.
//
// Bytes go to a temporary file in the same folder; commit() makes them durable and renames it over the target. An AtomicFile
// that is not committed (an error, a cancellation) removes its temporary file. A target that exists and is no regular file
// (/dev/null, a pipe) is written directly, never replaced. Not thread-safe.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

class AtomicFile {
 public:
  // Fails if the folder is missing or cannot be written, or the path is a folder.
  static Result<AtomicFile> create(const std::string& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Appends. Fails with the system's reason (full disk, quota) or kCancelled.
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text.data(), text.size()))); }

  // Syncs and renames. After an error, and after success, the object is spent.
  Result<void> commit();

 private:
  AtomicFile() = default;
  void discard() noexcept;
  tl::unexpected<Error> error(int error_number) const;

  int fd_ = -1;
  std::string path_;       // as the caller wrote it, for messages
  std::string target_;     // with links resolved
  std::string temporary_;  // empty when the target is written directly
};

// One call for bytes that are at hand.
Result<void> write_file_atomic(const std::string& path, std::span<const std::byte> bytes);
Result<void> write_file_atomic(const std::string& path, std::string_view text);

}  // namespace lathe
