#!/bin/sh
#SBATCH --job-name=fwdlab
#SBATCH --cpus-per-task=1 --mem=2G
# Measures a campaign that counts instructions as an array of jobs, on any nodes, and joins the shards:
#
#   id=$(sbatch --parsable --array=1-16 slurm-exact.sh)
#   sbatch --dependency="afterany:$id" slurm-exact.sh
#
# A task that was killed continues when it is requeued or submitted again: sbatch --array=3
# slurm-exact.sh. One whose shard is measured, with whatever result, has nothing left to do.
set -eu

campaign=${CAMPAIGN:-campaign.toml}
shards=${SHARDS:-16}
# a directory that all nodes see
directory=${DIRECTORY:-shards}

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    runs=$directory/$SLURM_ARRAY_TASK_ID
    if grep -qs '"state": "finished"' "$runs"/*/run.json; then
        exit 0
    fi
    if ls "$runs"/*/run.json >/dev/null 2>&1; then
        exec fwdlab run --resume @1 --plain --runs "$runs"
    fi
    exec fwdlab run "$campaign" --shard "$SLURM_ARRAY_TASK_ID/$shards" --plain --runs "$runs"
fi

# the job without a number joins them
rm -rf "$directory/joined"
mkdir "$directory/joined"
cp -r "$directory"/[0-9]*/* "$directory/joined"
cd "$directory/joined"
set -- *
exec fwdlab runs merge --runs . "$@"
