// Runs the `lathe` command and catches what it says.
#pragma once
#include <string>
#include <vector>

namespace lathe::test {

struct CommandResult {
  int status = -1;  // exit status; 128 + signal if a signal ended it
  std::string out, err;
};

// `arguments` without the program's name; `environment` adds NAME=value pairs. `interrupt_after_ms` > 0 sends SIGINT once after
// that time.
CommandResult run_lathe(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {},
                        int interrupt_after_ms = 0);

// Lines of a text, without the last empty one.
size_t line_count(const std::string& text);

}  // namespace lathe::test
