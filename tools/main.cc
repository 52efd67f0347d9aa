// The `lathe` command: dispatches to the verbs and turns errors into one line and an exit status.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "base/cancel.h"
#include "lathe/version.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

constexpr int kBadInput = 1;
constexpr int kBadUsage = 2;

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
  CLI::App app{"Makes a trained network small and fast, proves that it is still right, and runs it."};
  app.set_version_flag("--version", std::string("lathe ") + LATHE_VERSION_TEXT);
  app.require_subcommand(1);
  app.footer("`lathe <verb> --help` explains one verb. Exit status: 0, 1 (bad input, or a gate not met), 2 (usage).");
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Verb* verb : kVerbs) {
    CLI::App* sub = app.add_subcommand(verb->name, verb->summary);
    sub->footer(std::string("Example:\n  ") + verb->example);
    Arguments args(sub);
    actions.emplace_back(sub, verb->setup(args));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kBadUsage;
  }
  for (auto& [sub, action] : actions) {
    if (!sub->parsed()) continue;
    const auto done = action();
    return done ? 0 : report(done.error());
  }
  return kBadUsage;
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
