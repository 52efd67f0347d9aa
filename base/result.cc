#include "base/result.h"

namespace lathe {
namespace {

const char* code_text(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kUnsupported: return "unsupported";
    case Code::kCorrupt: return "corrupt";
    case Code::kVersion: return "made by a newer version";
    case Code::kOutOfMemory: return "out of memory";
    case Code::kIo: return "input or output error";
    case Code::kCancelled: return "cancelled";
  }
  return "unknown error";
}

}  // namespace

std::string describe(const Status& status) {
  if (status.ok()) return {};
  std::string s = code_text(status.code);
  s += " at " + std::to_string(status.where);
  if (status.needed != 0 || status.got != 0)
    s += " (needed " + std::to_string(status.needed) + ", got " + std::to_string(status.got) + ")";
  return s;
}

}  // namespace lathe
