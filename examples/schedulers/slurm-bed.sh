#!/bin/sh
#SBATCH --job-name=rack1
#SBATCH --licenses=rack1:1
# Measures a campaign on a test bed that only one job uses at a time. A bed is a licence in slurm.conf:
#
#   Licenses=rack1:1,rack2:1
#
#   sbatch slurm-bed.sh campaign.toml                      its [bed] has file = "rack1"
#   sbatch --licenses=rack2 slurm-bed.sh other.toml
exec fwdlab run "$1" --plain
