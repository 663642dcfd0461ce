// Entries for what a plugin does not implement: no entry of a table is null, and each says what is missing.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "plugins/c_table/version.h"

namespace pw::c_table {

// Makes every entry but those of errors answer Refusal(its name). The plugin then sets those that it has.
void FillDefaults(PJRT_Api* api);

// Each plugin defines this: UNIMPLEMENTED, worded for its users.
absl::Status Refusal(absl::string_view entry);

}  // namespace pw::c_table
