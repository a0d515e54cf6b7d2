// Uses a value, a factory that succeeds and one that fails, through the installed headers and
// library only.
#include <cstdio>

#include "shoal/base/status.h"
#include "shoal/layout/mesh.h"

int main() {
  shoal::layout::MeshSpec spec;
  spec.dp = {2, 2};
  const shoal::Result<shoal::layout::Mesh> mesh = shoal::layout::Mesh::Make(spec, 4);
  if (!mesh.ok()) {
    std::fprintf(stderr, "%s\n", mesh.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", mesh->ToString().c_str());

  spec.dp = {3};
  const shoal::Result<shoal::layout::Mesh> refused = shoal::layout::Mesh::Make(spec, 4);
  std::printf("%s\n", refused.ok() ? "accepted" : refused.status().ToString().c_str());
  return refused.ok() ? 1 : 0;
}
