#include "base/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/file.h"

namespace lathe {

Result<std::shared_ptr<void>> lock_file(const std::string& path, WhenLocked when_locked) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return fail(Code::kIo, "cannot lock '" + path + "': " + errno_text(errno));
  const std::shared_ptr<void> lock(nullptr, [fd](void*) { ::close(fd); });
  while (::flock(fd, when_locked == WhenLocked::kWait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return fail(Code::kIo, "'" + path + "' is locked: another process works in this folder");
    if (errno != EINTR) return fail(Code::kIo, "cannot lock '" + path + "': " + errno_text(errno));
  }
  return lock;
}

Result<void> remove_leftovers(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> doomed;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->is_regular_file(error) && it->path().filename().string().starts_with('.')) doomed.push_back(it->path());
  for (const fs::path& path : doomed)
    if (!error) fs::remove(path, error);
  if (error) return fail(Code::kIo, "cannot clear '" + folder + "': " + error.message());
  return {};
}

}  // namespace lathe
