#include "tools/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "temp_folder.h"

namespace lathe::test {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void redirect(const std::string& path, int fd) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, fd);
  ::close(file);
}

}  // namespace

CommandResult run_lathe(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                        int interrupt_after_ms) {
  const TempFolder folder;
  const std::string out = folder.file("out"), err = folder.file("err");
  std::vector<char*> argv{const_cast<char*>(LATHE_EXE)};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    redirect(out, STDOUT_FILENO);
    redirect(err, STDERR_FILENO);
    for (const std::string& e : environment) ::putenv(const_cast<char*>(e.c_str()));
    ::execv(LATHE_EXE, argv.data());
    ::_exit(127);
  }
  if (interrupt_after_ms > 0) {
    ::usleep(static_cast<useconds_t>(interrupt_after_ms) * 1000);
    ::kill(child, SIGINT);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CommandResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_all(out);
  result.err = read_all(err);
  return result;
}

size_t line_count(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace lathe::test
