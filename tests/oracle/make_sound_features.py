#!/usr/bin/env python3
"""Log-mel energies and MFCC of three sounds by torchaudio: make_sound_features.py [OUTPUT]

torchaudio puts a window into the middle of its FFT frame; silence in front and behind makes its frames those of data/sound_features.h. What is
computed there in double is written as float32. The cases stand in tests/data/sound_features_test.cc, too.
"""
import pathlib
import sys

import numpy as np
import torch
import torchaudio

# Rate, window and hop in samples, FFT, mels, low and high in Hz, floor, coefficients, length.
CASES = [
    (8000, 200, 80, 256, 40, 20.0, 4000.0, 1e-6, 13, 2600),
    (16000, 512, 320, 512, 64, 50.0, 7600.0, 1e-10, 20, 6000),
    (12000, 254, 83, 300, 20, 0.0, 5000.0, 1e-3, 20, 1500),
]


def sound(rate, length, seed):
    """A rising tone, noise, and silence at the end, as 16-bit samples."""
    random = np.random.default_rng(seed)
    t = np.arange(length) / rate
    x = 0.5 * np.sin(2 * np.pi * (200 * t + 6000 * t * t)) + 0.05 * random.standard_normal(length)
    x[length * 3 // 4:] = 0
    return np.clip(np.round(x * 32768), -32768, 32767).astype(np.int16)


def features(x, rate, window, hop, fft, mels, low, high, floor, coefficients):
    left = (fft - window) // 2
    padded = torch.nn.functional.pad(torch.from_numpy(x.astype(np.float64) / 32768), (left, fft - window - left))
    spectrogram = torchaudio.transforms.Spectrogram(fft, window, hop, power=2.0, center=False, wkwargs={"dtype": torch.float64})
    filters = torchaudio.functional.melscale_fbanks(fft // 2 + 1, low, high, mels, rate, norm=None, mel_scale="htk").double()
    log_mel = torch.log(torch.clamp(spectrogram(padded).T @ filters, min=floor))
    dct = torchaudio.functional.create_dct(coefficients, mels, norm="ortho").double()
    return log_mel.numpy().astype(np.float32), (log_mel @ dct).numpy().astype(np.float32)


def main():
    default = pathlib.Path(__file__).parent / "expected" / "sound_features.npz"
    arrays = {}
    for i, (rate, window, hop, fft, mels, low, high, floor, coefficients, length) in enumerate(CASES):
        x = sound(rate, length, i)
        arrays[f"samples{i}"] = x
        arrays[f"log_mel{i}"], arrays[f"mfcc{i}"] = features(x, rate, window, hop, fft, mels, low, high, floor, coefficients)
        print(i, arrays[f"log_mel{i}"].shape, arrays[f"mfcc{i}"].shape, arrays[f"log_mel{i}"].min(), arrays[f"log_mel{i}"].max())
    np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else default, **arrays)


main()
