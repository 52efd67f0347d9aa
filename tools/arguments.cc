#include "tools/arguments.h"

#include <CLI/CLI.hpp>

namespace lathe::tools {
namespace {

constexpr int kBadUsage = 2;

}  // namespace

Argument& Argument::required() {
  option_->required();
  return *this;
}

Argument& Argument::show_default() {
  option_->capture_default_str();
  return *this;
}

Argument& Argument::type_name(const char* name) {
  option_->type_name(name);
  return *this;
}

Argument& Argument::may_lack_value() {
  option_->expected(0, 1);
  return *this;
}

Argument& Argument::positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Argument& Argument::range(int low, int high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Argument& Argument::range(double low, double high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Argument& Argument::one_of(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Argument& Argument::needs(const Argument& other) {
  option_->needs(other.option_);
  return *this;
}

Argument& Argument::excludes(const Argument& other) {
  option_->excludes(other.option_);
  return *this;
}

bool Argument::given() const { return option_->count() > 0; }

#define LATHE_OPTION(type)                                                       \
  Argument Arguments::option(const char* names, type& value, const char* help) { \
    return Argument(app_->add_option(names, value, help));                       \
  }
LATHE_OPTION(std::string)
LATHE_OPTION(std::vector<std::string>)
LATHE_OPTION(uint32_t)
LATHE_OPTION(uint64_t)
LATHE_OPTION(double)
LATHE_OPTION(std::optional<uint32_t>)
LATHE_OPTION(std::optional<double>)
#undef LATHE_OPTION

Argument Arguments::flag(const char* names, bool& value, const char* help) { return Argument(app_->add_flag(names, value, help)); }

Argument Arguments::flag(const char* names, std::string& value, const char* help) {
  return Argument(app_->add_flag(names, value, help));
}

Argument Arguments::find(const char* name) { return Argument(app_->get_option(name)); }

Arguments Arguments::command(const char* name, const char* summary) { return Arguments(app_->add_subcommand(name, summary)); }

void Arguments::require_command() { app_->require_subcommand(1); }

void Arguments::when_given(std::function<void()> action) { app_->callback(std::move(action)); }

void Arguments::footer(const std::string& text) { app_->footer(text); }

bool Arguments::named() const { return app_->parsed(); }

CommandLine::CommandLine(const char* description) : app_(std::make_unique<CLI::App>(description)) {}

CommandLine::~CommandLine() = default;

void CommandLine::version(const std::string& text) { app_->set_version_flag("--version", text); }

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app_->exit(e) == 0 ? 0 : kBadUsage;
  }
  return std::nullopt;
}

}  // namespace lathe::tools
