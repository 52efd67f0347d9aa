// Sound files, decoded on access. Internal to data/.
#pragma once
#include <string>
#include <vector>

#include "data/samples.h"

namespace lathe {

// `p` gives rate, length and channels. Without a length all sounds are as long as the first; each is checked when it is read.
Result<std::shared_ptr<const Samples>> make_sound_samples(std::vector<std::string> files, const Preprocessing& p);

}  // namespace lathe
