// The address at which the controller shows its page to operators (docs/operators.md): flags, and the server behind them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/clock.h"
#include "pathways/base/executor.h"
#include "pathways/base/flags.h"
#include "pathways/http/server.h"
#include "pathways/http/site.h"

namespace pw {

struct PageFlags {
  std::string listen;
  std::string files;
  std::string token_file;
  std::string names;
  std::string port_file;
};

void DeclarePage(PageFlags* options, Flags* flags);

// The contents of the page, and the readers beside those who have the secret. Such readers are of this machine only: tokens are not sent over a network in
// plain text.
struct PageContents {
  std::map<std::string, http::Site::Source> sources;
  http::Site::Admit admit;  // null: nobody has tokens
};

// Serves the page. Returns null if no address is given. INVALID_ARGUMENT says what is missing or wrong; NOT_FOUND: the page is not installed.
// `executor` and `clock` outlive the server and what it has posted.
absl::StatusOr<std::unique_ptr<http::Server>> ServePage(const PageFlags& options, PageContents contents, Executor* executor,
                                                        Clock* clock);

}  // namespace pw
