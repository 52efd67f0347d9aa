#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/cancel.h"
#include "base/file.h"

namespace lathe {
namespace {

constexpr size_t kChunkBytes = size_t{4} << 20;
constexpr int kTries = 100;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// A rename lasts only once its folder is on disk. Some file systems cannot sync a folder; the rename stands all the same.
void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

tl::unexpected<Error> AtomicFile::error(int error_number) const {
  return fail(Code::kIo, "cannot write '" + path_ + "': " + errno_text(error_number));
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  AtomicFile file;
  file.path_ = path;
  if (path.empty() || path.back() == '/') return file.error(path.empty() ? ENOENT : EISDIR);
  // Behind a link, the file that it names is replaced and the link stays.
  std::error_code ec;
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(path, ec);
  file.target_ = ec ? path : resolved.string();

  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return file.error(EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    file.fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file.fd_ < 0) return file.error(errno);
    return file;
  }
  // A file that its owner made read-only is not silently replaced.
  if (exists && ::access(path.c_str(), W_OK) != 0) return file.error(errno);
  const std::string stem = folder_of(file.target_) + "/." + name_of(file.target_) + "." + std::to_string(::getpid()) + ".";
  for (int i = 0; i < kTries && file.fd_ < 0; ++i) {
    const std::string name = stem + std::to_string(i) + ".tmp";
    file.fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.fd_ >= 0) file.temporary_ = name;
    if (file.fd_ < 0 && errno != EEXIST) return file.error(errno);
  }
  if (file.fd_ < 0) return file.error(EEXIST);
  // Keeping an old file's mode is a courtesy; a file system without modes may refuse it.
  if (exists && ::fchmod(file.fd_, info.st_mode & 0777) != 0) errno = 0;
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept { *this = std::move(other); }

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  fd_ = std::exchange(other.fd_, -1);
  path_ = std::move(other.path_);
  target_ = std::move(other.target_);
  temporary_ = std::exchange(other.temporary_, {});
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  if (fd_ < 0) return error(EBADF);
  while (!bytes.empty()) {
    LATHE_CHECK_OK(check_cancelled());
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kChunkBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error(errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> AtomicFile::commit() {
  if (fd_ < 0) return error(EBADF);
  LATHE_CHECK_OK(check_cancelled());
  // Late errors of a full or remote disk surface in fsync and close. Devices and pipes cannot be synced (EINVAL, EROFS).
  if (!temporary_.empty() && ::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) return error(errno);
  if (::close(std::exchange(fd_, -1)) != 0) return error(errno);
  if (temporary_.empty()) return {};
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return error(errno);
  temporary_.clear();
  sync_folder(folder_of(target_));
  return {};
}

Result<void> write_file_atomic(const std::string& path, std::span<const std::byte> bytes) {
  LATHE_TRY(AtomicFile file, AtomicFile::create(path));
  LATHE_CHECK_OK(file.write(bytes));
  return file.commit();
}

Result<void> write_file_atomic(const std::string& path, std::string_view text) {
  return write_file_atomic(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace lathe
