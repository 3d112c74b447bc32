// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "koord/fragmentation.hpp"

namespace koord::devices {
namespace {

// Entry i is the least double x for which trunc((1 / (1 + exp(-x))) * 100), every operation rounded
// to nearest and exp() exact before its rounding, is at least i + 1.
constexpr std::array<double, 100> kLeastGain = {
    -0x1.2616719161d2bp+2, -0x1.f2272ae325a57p+1,  -0x1.bcf0cd474166bp+1, -0x1.96ca77c922cf8p+1,
    -0x1.78e360604b32cp+1, -0x1.60324f23a6f31p+1,  -0x1.4b18a2ece7fb3p+1, -0x1.389ed3e132574p+1,
    -0x1.28253079db672p+1, -0x1.193ea7aad030ap+1,  -0x1.0b9d677dddea0p+1, -0x1.fe0fe73ce8885p+0,
    -0x1.e6a53bbe5e6a6p+0, -0x1.d0b6d7df77dcap+0,  -0x1.bc0ed0947fbe9p+0, -0x1.a881a29e52373p+0,
    -0x1.95ebab1969313p+0, -0x1.842f595c35286p+0,  -0x1.7333ddeaaa5d1p+0, -0x1.62e42fefa39efp+0,
    -0x1.532e4fddf686ap+0, -0x1.4402b6211ad15p+0,  -0x1.3553e218d610fp+0, -0x1.2716011df4657p+0,
    -0x1.193ea7aad030bp+0, -0x1.0bc49861276d8p+0,  -0x1.fd3f2b9036cf2p-1, -0x1.e39078d49916ap-1,
    -0x1.ca6fc71eebdccp-1, -0x1.b1d10670aae9ap-1,  -0x1.99a93ca5c286fp-1, -0x1.81ee60afb501ap-1,
    -0x1.6a973b5e9a627p-1, -0x1.539b4cb6ce55fp-1,  -0x1.3cf2b50617c96p-1, -0x1.269621134db93p-1,
    -0x1.107eb8e2da1e5p-1, -0x1.f54c21463c16ap-2,  -0x1.ca0c36ce6521cp-2, -0x1.9f323ecbf984fp-2,
    -0x1.74b356ffd351ep-2, -0x1.4a851baf27b6fp-2,  -0x1.209d96a324508p-2, -0x1.ede65f58845bep-3,
    -0x1.9af93cd23440bp-3, -0x1.4861ba31d0a04p-3,  -0x1.ec1c712297e9ep-4, -0x1.47dadcbbdba94p-4,
    -0x1.47b9447a9aa07p-5, -0x1.7fffffffffffep-52, 0x1.47b9447a9a9c4p-5,  0x1.47dadcbbdba7bp-4,
    0x1.ec1c712297e7cp-4,  0x1.4861ba31d09fbp-3,   0x1.9af93cd234413p-3,  0x1.ede65f58845bbp-3,
    0x1.209d96a324507p-2,  0x1.4a851baf27b6dp-2,   0x1.74b356ffd3519p-2,  0x1.9f323ecbf9849p-2,
    0x1.ca0c36ce65216p-2,  0x1.f54c21463c167p-2,   0x1.107eb8e2da1e5p-1,  0x1.269621134db90p-1,
    0x1.3cf2b50617c95p-1,  0x1.539b4cb6ce55bp-1,   0x1.6a973b5e9a624p-1,  0x1.81ee60afb5015p-1,
    0x1.99a93ca5c2867p-1,  0x1.b1d10670aae98p-1,   0x1.ca6fc71eebdc9p-1,  0x1.e39078d499169p-1,
    0x1.fd3f2b9036cf2p-1,  0x1.0bc49861276d8p+0,   0x1.193ea7aad030bp+0,  0x1.2716011df4658p+0,
    0x1.3553e218d610dp+0,  0x1.4402b6211ad15p+0,   0x1.532e4fddf686bp+0,  0x1.62e42fefa39edp+0,
    0x1.7333ddeaaa5cdp+0,  0x1.842f595c35285p+0,   0x1.95ebab196930fp+0,  0x1.a881a29e52371p+0,
    0x1.bc0ed0947fbe6p+0,  0x1.d0b6d7df77dc7p+0,   0x1.e6a53bbe5e6a5p+0,  0x1.fe0fe73ce8885p+0,
    0x1.0b9d677dddea2p+1,  0x1.193ea7aad030cp+1,   0x1.28253079db673p+1,  0x1.389ed3e132573p+1,
    0x1.4b18a2ece7fb3p+1,  0x1.60324f23a6f2ep+1,   0x1.78e360604b32bp+1,  0x1.96ca77c922cefp+1,
    0x1.bcf0cd474166bp+1,  0x1.f2272ae325a49p+1,   0x1.2616719161d18p+2,  0x1.25e4f7b2737fbp+5,
};

}  // namespace

std::int32_t gradient_score(double before_milli, double after_milli) noexcept {
  const double gain = (before_milli - after_milli) / 1000;
  return static_cast<std::int32_t>(std::ranges::upper_bound(kLeastGain, gain) - kLeastGain.begin());
}

}  // namespace koord::devices
