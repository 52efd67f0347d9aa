#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/cancel.h"

namespace lathe {
namespace {

constexpr size_t kChunkBytes = size_t{4} << 20;

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

tl::unexpected<Error> io_error(const std::string& path, int error) {
  return fail(Code::kIo, "cannot read '" + path + "': " + errno_text(error));
}

tl::unexpected<Error> too_large(const std::string& path, uint64_t bytes, uint64_t max_bytes) {
  return fail(Code::kInvalidArgument, "cannot read '" + path + "': it has " + std::to_string(bytes) +
                                          " bytes or more, the limit is " + std::to_string(max_bytes));
}

template <class Container>
Result<Container> read_all(const std::string& path, uint64_t max_bytes) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return io_error(path, errno);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return io_error(path, errno);
  if (S_ISDIR(info.st_mode)) return io_error(path, EISDIR);
  const bool regular = S_ISREG(info.st_mode);
  const uint64_t size = regular ? static_cast<uint64_t>(info.st_size) : 0;
  if (size > max_bytes) return too_large(path, size, max_bytes);

  // A file may grow or shrink while it is read, and some (pipes, /proc) say 0: the count that was read decides.
  Container out;
  uint64_t done = 0;
  out.resize(static_cast<size_t>(size));
  for (;;) {
    LATHE_CHECK_OK(check_cancelled());
    if (done == out.size()) {
      char more = 0;
      const ssize_t n = ::read(file.fd, &more, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return io_error(path, errno);
      if (n == 0) break;
      if (done >= max_bytes) return too_large(path, done + 1, max_bytes);
      out.resize(static_cast<size_t>(std::min<uint64_t>(max_bytes, done + kChunkBytes)));
      std::memcpy(out.data() + done, &more, 1);
      ++done;
      continue;
    }
    const ssize_t n = ::read(file.fd, out.data() + done, std::min<size_t>(out.size() - done, kChunkBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path, errno);
    if (n == 0) break;
    done += static_cast<uint64_t>(n);
  }
  out.resize(static_cast<size_t>(done));
  return out;
}

}  // namespace

std::string errno_text(int error) {
  std::string text = std::strerror(error);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t max_bytes) {
  return read_all<std::vector<std::byte>>(path, max_bytes);
}

Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes) { return read_all<std::string>(path, max_bytes); }

}  // namespace lathe
