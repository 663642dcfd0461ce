#include "pathways/base/process/notice.h"

#include <poll.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace pw {

void PrintNotice(int fd, const std::string& line) {
  pollfd ready = {fd, POLLOUT, 0};
  // A pipe that is ready has room for more than a line.
  if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  const std::string text = absl::StrCat("pathways: ", line, "\n");
  if (::write(fd, text.data(), text.size()) < 0) return;  // the reader has closed its end
}

}  // namespace pw
