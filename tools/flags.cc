#include "tools/flags.h"

#include <charconv>
#include <cstdio>
#include <filesystem>

#include "runtime/host/cpu.h"
#include "tools/model.h"
#include "tools/table.h"

namespace lathe::tools {
namespace {

// "name=a,b,c" split at the first '=' and at `separator`.
struct Assignment {
  std::string name;
  std::vector<std::string> values;
};

Result<Assignment> parse_assignment(const std::string& text, char separator, const char* flag) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return fail(Code::kInvalidArgument, std::string(flag) + " '" + text + "': expected name=value");
  Assignment a{text.substr(0, equals), {}};
  size_t begin = equals + 1;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    a.values.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return a;
}

template <class T>
Result<T> parse_number(const std::string& text, const std::string& flag) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(Code::kInvalidArgument, flag + ": '" + text + "' is not a number");
  return value;
}

}  // namespace

void ImportFlags::add_to(Arguments& args) {
  args.option("--const", constants, "name=v1,v2: fix an input, or in ONNX a value, to these numbers").type_name("NAME=VALUES");
  args.option("--shape", shapes, "name=1x3x224x224: fix the dims of an input").type_name("NAME=DIMS");
}

Result<ImportOptions> ImportFlags::options() const {
  ImportOptions options;
  for (const std::string& text : constants) {
    LATHE_TRY(const Assignment a, parse_assignment(text, ',', "--const"));
    for (const std::string& v : a.values) {
      LATHE_TRY(const double d, parse_number<double>(v, "--const " + a.name));
      options.constants[a.name].push_back(d);
    }
  }
  for (const std::string& text : shapes) {
    LATHE_TRY(const Assignment a, parse_assignment(text, 'x', "--shape"));
    for (const std::string& v : a.values) {
      LATHE_TRY(const int64_t d, parse_number<int64_t>(v, "--shape " + a.name));
      options.shapes[a.name].push_back(d);
    }
  }
  return options;
}

void SessionFlags::add_to(Arguments& args) {
  args.option("--threads", threads, "threads of the kernel team; 0: as many as this process may use").show_default();
  args.option("--isa", isa, "use no instruction set above this one (scalar, avx2, avx512, avx512vnni, neon, dotprod)");
}

Result<SessionOptions> SessionFlags::options() const {
  LATHE_TRY(const kernels::IsaSet machine, machine_isa());
  LATHE_TRY(const kernels::IsaSet cap, capped_isa(isa));
  return SessionOptions{machine & cap, threads == 0 ? usable_cpus() : threads};
}

void WriteFlags::add_to(Arguments& args) {
  args.option("-o,--output", output, ".lathe file to write").required();
  args.option("--target", targets, "what to lower for: host, cortex-m4").show_default();
  args.option("--sparse", sparse, "auto: block-sparse INT8 weights lie without their zeros where that is faster; off: never")
      .one_of({"auto", "off"})
      .show_default();
  args.flag("--strip", strip, "write only what running needs");
}

Result<WriteOptions> WriteFlags::options() const {
  LATHE_CHECK_OK(check_writable(output));
  WriteOptions options;
  options.strip = strip;
  options.sparse = sparse == "off" ? SparseWeights::kOff : SparseWeights::kAuto;
  for (const std::string& name : targets) {
    LATHE_TRY(const Target target, parse_target(name));
    options.targets.push_back(target);
  }
  return options;
}

void WriteFlags::print_written() const {
  std::error_code error;
  std::printf("wrote %s, %s\n", output.c_str(),
              bytes_text(static_cast<double>(std::filesystem::file_size(output, error))).c_str());
}

}  // namespace lathe::tools
