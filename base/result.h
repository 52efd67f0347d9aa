// Errors of the host layers: a code and one sentence, with context added at each border.
//
// Who calls it: base/, data/, graph/, quant/, tools/ and everything above; the core uses lathe::Status.
// Message style: lower case, no full stop, both numbers, the name of the thing:
//   conv 'layer1.0': weight has 4 input channels, input has 3
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "lathe/status.h"

namespace lathe {

struct Error {
  Code code = Code::kInvalidArgument;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

// A failed Result with `message`: `return fail(Code::kCorrupt, "idx file 'x': ...");`
inline tl::unexpected<Error> fail(Code code, std::string message) { return tl::unexpected<Error>(Error{code, std::move(message)}); }

// Prefixes an error with where it happened: "<where>: <message>".
inline Error with_context(Error e, std::string_view where) {
  e.message.insert(0, std::string(where) + ": ");
  return e;
}

// A sentence for a core status; empty for kOk.
std::string describe(const Status& status);

}  // namespace lathe

#define LATHE_CONCAT_(a, b) a##b
#define LATHE_CONCAT(a, b) LATHE_CONCAT_(a, b)
// LATHE_TRY(auto x, f()): x from f()'s Result, or return its error from the enclosing function.
#define LATHE_TRY(decl, expr) LATHE_TRY_(LATHE_CONCAT(lathe_try_, __LINE__), decl, expr)
#define LATHE_TRY_(tmp, decl, ...)                                    \
  auto tmp = __VA_ARGS__;                                             \
  if (!tmp) return tl::unexpected<::lathe::Error>(std::move(tmp.error())); \
  decl = std::move(*tmp)
// LATHE_CHECK_OK(f()): for Result<void>.
#define LATHE_CHECK_OK(...)                                                          \
  do {                                                                               \
    auto lathe_status_ = __VA_ARGS__;                                                \
    if (!lathe_status_) return tl::unexpected<::lathe::Error>(std::move(lathe_status_.error())); \
  } while (0)
