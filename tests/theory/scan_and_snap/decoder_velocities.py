"""One step of descent on the decoder, written out for a whole decoder: what the fast descents are compared with."""

import numpy as np
from scipy.special import softmax


def plain_decoder_dot(decoder, feature, *, label, lr_decoder):
    """dY/dt = η_Y f_n (e_n - α_n)ᵀ, α_n = softmax(Yᵀ f_n) [tian2023, eq. 7]; the label of class n is token n."""
    return lr_decoder * np.outer(feature[label], _error(decoder, feature, label))


def modified_decoder_dot(decoder, feature, *, label, lr_decoder):
    """dY/dt = η_Y F (Fᵀ F)⁻¹ e_n (e_n - α_n)ᵀ [tian2023, Lemma 3, eq. 26]: only row n of W = Fᵀ Y moves."""
    dual = np.linalg.solve(feature @ feature.T, feature)[label]
    return lr_decoder * np.outer(dual, _error(decoder, feature, label))


def _error(decoder, feature, label):
    return np.eye(len(decoder))[label] - softmax(decoder.T @ feature[label])
