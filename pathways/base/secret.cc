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
    got = ::getrandom(key.data(), key.size(), 0);  // so few bytes come whole
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(key.size())) return key;
  PW_LOG_ERROR << "the system gives no random bytes";
  std::abort();  // a key that could be guessed would let anybody in
}

}  // namespace pw
