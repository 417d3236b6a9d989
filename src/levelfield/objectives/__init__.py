"""Objectives: `(embeddings, labels) -> loss`, each written like its equation. New files are found automatically.

>>> import torch
>>> from levelfield import objectives
>>> loss = objectives.create("triplet", margin=0.1)
>>> value = loss(torch.randn(8, 16, generator=torch.Generator().manual_seed(0)), torch.arange(8) // 2)
"""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.objectives._contract import LossInputs as LossInputs
    from levelfield.objectives._contract import Objective as Objective
    from levelfield.objectives._contract import ObjectiveFacts as ObjectiveFacts
    from levelfield.objectives._contract import register as register
    from levelfield.objectives._create import as_objective as as_objective
    from levelfield.objectives._create import create as create
    from levelfield.objectives._create import describe as describe
    from levelfield.objectives._create import names as names
    from levelfield.objectives._sharded import ShardedClasses as ShardedClasses
    from levelfield.objectives.cross_batch_memory import CrossBatchMemory as CrossBatchMemory

if TYPE_CHECKING:  # written by make tables
    from levelfield.objectives.angular import Angular as Angular
    from levelfield.objectives.arcface import ArcFace as ArcFace
    from levelfield.objectives.contrastive import Contrastive as Contrastive
    from levelfield.objectives.cosface import CosFace as CosFace
    from levelfield.objectives.fast_ap import FastAP as FastAP
    from levelfield.objectives.generalized_lifted import GeneralizedLifted as GeneralizedLifted
    from levelfield.objectives.group_loss import GroupLoss as GroupLoss
    from levelfield.objectives.hist import Hist as Hist
    from levelfield.objectives.histogram import Histogram as Histogram
    from levelfield.objectives.lifted_structure import LiftedStructure as LiftedStructure
    from levelfield.objectives.margin import Margin as Margin
    from levelfield.objectives.message_passing import MessagePassing as MessagePassing
    from levelfield.objectives.multi_similarity import MultiSimilarity as MultiSimilarity
    from levelfield.objectives.n_pair import NPair as NPair
    from levelfield.objectives.normalized_softmax import NormalizedSoftmax as NormalizedSoftmax
    from levelfield.objectives.nt_xent import NTXent as NTXent
    from levelfield.objectives.prototypical import Prototypical as Prototypical
    from levelfield.objectives.proxy_anchor import ProxyAnchor as ProxyAnchor
    from levelfield.objectives.proxy_nca import ProxyNCA as ProxyNCA
    from levelfield.objectives.proxy_nca import ProxyNCAPlusPlus as ProxyNCAPlusPlus
    from levelfield.objectives.proxy_triplet import ProxyTriplet as ProxyTriplet
    from levelfield.objectives.quadruplet import Quadruplet as Quadruplet
    from levelfield.objectives.ranked_list import RankedList as RankedList
    from levelfield.objectives.snr import SNR as SNR
    from levelfield.objectives.soft_triple import SoftTriple as SoftTriple
    from levelfield.objectives.softmax import Softmax as Softmax
    from levelfield.objectives.structured_clustering import StructuredClustering as StructuredClustering
    from levelfield.objectives.triplet import Triplet as Triplet

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
