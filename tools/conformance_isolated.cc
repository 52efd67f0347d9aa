// A case in a process of its own.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "tools/conformance.h"

namespace lathe::tools {
namespace {

// Over the pipe: outcome, fixed, then operator and reason, each ended by a zero byte.
std::string packed(const CaseResult& r) {
  std::string s{static_cast<char>(r.outcome), static_cast<char>(r.fixed)};
  return s.append(r.op).append(1, '\0').append(r.reason).append(1, '\0');
}

bool unpack(const std::string& s, CaseResult* r) {
  const size_t op_end = s.size() < 4 ? std::string::npos : s.find('\0', 2);
  if (op_end == std::string::npos || op_end + 1 >= s.size() || s.back() != '\0') return false;
  r->outcome = static_cast<Outcome>(s[0]);
  r->fixed = s[1] != 0;
  r->op = s.substr(2, op_end - 2);
  r->reason = s.substr(op_end + 1, s.size() - op_end - 2);
  return true;
}

CaseResult run_and_catch(const std::string& folder, const CaseOptions& options) {
  try {
    return run_case(folder, options);
  } catch (const std::exception& e) {
    return {Outcome::kFailed, false, "", std::string("exception: ") + e.what()};
  }
}

[[noreturn]] void run_in_child(const std::string& folder, const CaseOptions& options, int to) {
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(options.time_limit);
  const std::string text = packed(run_and_catch(folder, options));
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(to, text.data() + done, text.size() - done);
    if (n <= 0) ::_exit(1);
    done += static_cast<size_t>(n);
  }
  ::_exit(0);
}

std::string read_to_end(int from) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(from, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

std::string how_it_ended(int status, const CaseOptions& options) {
  if (!WIFSIGNALED(status)) return "the process ended with status " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM) return "it took longer than " + std::to_string(options.time_limit) + " s";
  return std::string("crashed: ") + ::strsignal(WTERMSIG(status));
}

}  // namespace

CaseResult run_case_isolated(const std::string& folder, const CaseOptions& options) {
  int ends[2];
  CaseResult result;
  result.op = "(unknown)";
  if (::pipe(ends) != 0) {
    result.reason = std::string("no pipe: ") + std::strerror(errno);
    return result;
  }
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    run_in_child(folder, options, ends[1]);
  }
  ::close(ends[1]);
  const std::string text = read_to_end(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (child < 0) result.reason = std::string("no process: ") + std::strerror(errno);
  else if (!unpack(text, &result)) result.reason = how_it_ended(status, options);
  return result;
}

}  // namespace lathe::tools
