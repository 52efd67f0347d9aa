#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMaxDepth = 64;

uint32_t line_at(std::string_view text, size_t position) {
  return 1 + static_cast<uint32_t>(
                 std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(std::min(position, text.size())), '\n'));
}

// Builds a Tree from the parser's events, so that depth and repeated keys are checked before anything recursive exists.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  Tree take() { return std::move(root_); }
  const std::string& message() const { return message_; }
  uint32_t line() const { return line_; }

  bool null() override { return add(Tree()); }
  bool boolean(bool v) override { return add(Tree(v)); }
  bool number_integer(int64_t v) override { return add(Tree(v)); }
  bool number_unsigned(uint64_t v) override {
    if (v > static_cast<uint64_t>(INT64_MAX)) return reject("integer " + std::to_string(v) + " is too large");
    return add(Tree(static_cast<int64_t>(v)));
  }
  bool number_float(double v, const std::string&) override { return add(Tree(v)); }
  bool string(std::string& v) override { return add(Tree(std::move(v))); }
  bool binary(binary_t&) override { return reject("binary data"); }
  bool start_object(size_t) override { return open(Tree::table()); }
  bool start_array(size_t) override { return open(Tree::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& v) override {
    if (stack_.back().value.find(v) != nullptr) return reject("key '" + v + "' is repeated");
    stack_.back().key = std::move(v);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    line_ = line_at(text_, position == 0 ? 0 : position - 1);
    const std::string what = e.what();
    const size_t colon = what.find(": ");  // after the library's own numbering and position
    return reject(colon == std::string::npos ? what : what.substr(colon + 2));
  }

 private:
  struct Level {
    Tree value;
    std::string key;
  };

  bool reject(std::string message) {
    message_ = std::move(message);
    return false;
  }
  bool add(Tree v) {
    if (stack_.empty()) {
      root_ = std::move(v);
    } else if (stack_.back().value.as_array() != nullptr) {
      stack_.back().value.push(std::move(v));
    } else {
      stack_.back().value.set(stack_.back().key, std::move(v));
    }
    return true;
  }
  bool open(Tree v) {
    if (stack_.size() >= kMaxDepth) return reject("nested more than " + std::to_string(kMaxDepth) + " levels deep");
    stack_.push_back({std::move(v), {}});
    return true;
  }
  bool close() {
    Tree v = std::move(stack_.back().value);
    stack_.pop_back();
    return add(std::move(v));
  }

  std::string_view text_;
  Tree root_;
  std::vector<Level> stack_;
  std::string message_;
  uint32_t line_ = 0;
};

Json convert(const Tree& v) {
  double number = 0;
  if (v.as_bool() != nullptr) return *v.as_bool();
  if (v.as_int() != nullptr) return *v.as_int();
  if (v.as_number(&number)) return number;
  if (v.as_string() != nullptr) return *v.as_string();
  if (v.as_array() != nullptr) {
    Json out = Json::array();
    for (const Tree& item : *v.as_array()) out.push_back(convert(item));
    return out;
  }
  if (v.as_table() != nullptr) {
    Json out = Json::object();
    for (const auto& [key, item] : *v.as_table()) out[key] = convert(item);
    return out;
  }
  return nullptr;
}

}  // namespace

Result<Tree> parse_json(std::string_view text, const std::string& where) {
  Builder builder(text);
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return builder.take();
  const std::string line = builder.line() == 0 ? "" : ":" + std::to_string(builder.line());
  return fail(Code::kCorrupt, where + line + ": not valid JSON: " + builder.message());
}

std::string to_json(const Tree& value, int indent) {
  return convert(value).dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lathe
