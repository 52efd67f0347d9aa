// versions/NAME.toml and state.toml as text. Internal to base/store/.
#pragma once
#include <string>
#include <string_view>

#include "base/store/registry.h"

namespace lathe {

std::string version_text(const Version& version);
Result<Version> parse_version(std::string_view text, const std::string& where);
std::string state_text(const RegistryState& state);
Result<RegistryState> parse_state(std::string_view text, const std::string& where);

}  // namespace lathe
