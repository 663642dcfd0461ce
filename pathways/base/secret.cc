#include "pathways/base/secret.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

#include "pathways/base/log.h"

namespace pw {

std::string RandomKey() {
  std::string key(32, 0);
  ssize_t got = 0;
  do {
    got = ::getrandom(key.data(), key.size(), 0);  // a request this small is never partial
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(key.size())) return key;
  PW_LOG_ERROR << "the system gives no random bytes";
  std::abort();  // a guessable key would admit any client
}

}  // namespace pw
