#include "runtime/host/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"

namespace lathe {
namespace {

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

tl::unexpected<Error> io_error(const std::string& path) { return fail(Code::kIo, path + ": " + errno_text(errno)); }

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return io_error(path);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return io_error(path);
  if (!S_ISREG(info.st_mode)) return fail(Code::kIo, path + ": is not a regular file");
  if (info.st_size == 0) return fail(Code::kCorrupt, path + ": file is empty");
  const auto size = static_cast<size_t>(info.st_size);
  void* p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (p == MAP_FAILED) return io_error(path);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, {static_cast<const uint8_t*>(p), size}));
}

MappedFile::~MappedFile() { ::munmap(const_cast<uint8_t*>(bytes_.data), static_cast<size_t>(bytes_.size)); }

}  // namespace lathe
