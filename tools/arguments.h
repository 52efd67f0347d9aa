// How verbs declare their options. The library behind this (CLI11) is a header of templates that costs seconds in every file that
// includes it, so it stays in arguments.cc.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lathe::tools {

// One declared option; a handle, copied freely, valid while the command line lives.
class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}
  Argument& required();
  Argument& show_default();               // in --help: what the variable holds now
  Argument& type_name(const char* name);  // in --help: what stands for the value
  Argument& may_lack_value();             // `--option` alone is allowed
  Argument& positive();                   // a number above 0
  Argument& range(int low, int high);     // whole numbers, both ends allowed
  Argument& range(double low, double high);
  Argument& one_of(const std::vector<std::string>& values);
  Argument& needs(const Argument& other);
  Argument& excludes(const Argument& other);
  bool given() const;  // after parsing

 private:
  CLI::Option* option_;
};

// The command line of one verb, or of one command of it. The variables must outlive parsing.
class Arguments {
 public:
  explicit Arguments(CLI::App* app) : app_(app) {}
  // `names` is "--long", "-s,--long", or a bare word for a positional one. A vector takes the option several times; an optional one stays
  // empty where it is not given.
  Argument option(const char* names, std::string& value, const char* help = "");
  Argument option(const char* names, std::vector<std::string>& values, const char* help = "");
  Argument option(const char* names, uint32_t& value, const char* help = "");
  Argument option(const char* names, uint64_t& value, const char* help = "");
  Argument option(const char* names, double& value, const char* help = "");
  Argument option(const char* names, std::optional<uint32_t>& value, const char* help = "");
  Argument option(const char* names, std::optional<double>& value, const char* help = "");
  Argument flag(const char* names, bool& value, const char* help);
  // `names` may be "--flag{word}": the flag alone stores the word, --flag=other another.
  Argument flag(const char* names, std::string& value, const char* help);
  Argument find(const char* name);  // one declared earlier

  Arguments command(const char* name, const char* summary);
  void require_command();
  void when_given(std::function<void()> action);  // runs while parsing, if this command was named
  void footer(const std::string& text);           // ends --help
  bool named() const;                             // after parsing: this command is the one

 private:
  CLI::App* app_;
};

// The whole command line of a program.
class CommandLine {
 public:
  explicit CommandLine(const char* description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  Arguments arguments() { return Arguments(app_.get()); }
  void version(const std::string& text);
  // Nothing, or the exit status that the program ends with now: 0 after --help and --version, 2 for wrong usage; both were printed.
  std::optional<int> parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace lathe::tools
