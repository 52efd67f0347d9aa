// The `lathe` command: dispatches to the verbs and turns errors into one line and an exit status.
#include <cstdio>
#include <exception>

#include "base/cancel.h"
#include "lathe/version.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

constexpr int kBadInput = 1;

const Verb* const kVerbs[] = {
#define LATHE_VERB(name) &kVerb_##name,
#include "tools/verbs.inc"
#undef LATHE_VERB
};

int report(const Error& error) {
  std::fprintf(stderr, "lathe: %s\n", error.message.c_str());
  return kBadInput;
}

int run(int argc, char** argv) {
  CommandLine line("Makes a trained network small and fast, proves that it is still right, and runs it.");
  line.version(std::string("lathe ") + LATHE_VERSION_TEXT);
  Arguments all = line.arguments();
  all.require_command();
  all.footer("`lathe <verb> --help` explains one verb. Exit status: 0, 1 (bad input, or a gate not met), 2 (usage).");
  std::vector<std::pair<Arguments, Action>> actions;
  for (const Verb* verb : kVerbs) {
    Arguments args = all.command(verb->name, verb->summary);
    args.footer(std::string("Example:\n  ") + verb->example);
    actions.emplace_back(args, verb->setup(args));
  }
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  for (auto& [args, action] : actions) {
    if (!args.named()) continue;
    const auto done = action();
    return done ? 0 : report(done.error());
  }
  return kBadInput;
}

}  // namespace
}  // namespace lathe::tools

int main(int argc, char** argv) {
  lathe::install_interrupt_handler();
  try {
    return lathe::tools::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return lathe::tools::report({lathe::Code::kOutOfMemory, "out of memory"});
  } catch (const std::exception& e) {
    return lathe::tools::report({lathe::Code::kInvalidArgument, e.what()});
  }
}
