#!/bin/sh
#SBATCH --job-name=rack1
#SBATCH --licenses=rack1:1
#SBATCH --requeue
# Measures a campaign on a test bed that only one job uses at a time. A bed is a licence in slurm.conf:
#
#   Licenses=rack1:1,rack2:1
#
#   sbatch slurm-bed.sh campaign.toml                      its [bed] has file = "rack1"
#   sbatch --licenses=rack2 slurm-bed.sh other.toml
#
# A job that was killed with its node continues when Slurm starts it again. --wait is for runs outside
# of Slurm on the same bed.
set -eu

# a directory that all nodes see
runs=${DIRECTORY:-runs}/$SLURM_JOB_ID

if grep -qs '"state": "finished"' "$runs"/*/run.json; then
    exit 0
fi
if ls "$runs"/*/run.json >/dev/null 2>&1; then
    exec fwdlab run --resume @1 --wait --plain --runs "$runs"
fi
exec fwdlab run "$1" --wait --plain --runs "$runs"
